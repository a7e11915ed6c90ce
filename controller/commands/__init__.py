"""Everything that changes the cluster's metadata: image and request in, records and response out.

    decision                 what a command gives
    bootstrap                the first records of a new cluster
    registration             brokers say what they are when they start
    heartbeats               brokers say that they live and what they want
    brokers                  fencing and unfencing, directories that fail
    controllers              controllers say what they are when they start
    topics                   creation and deletion
    partitions               more partitions for a topic
    directories              in which of its directories a broker has a replica
    assignment               replicas of a new partition, placed or assigned by hand
    elect_leaders            leaders elected at somebody's request
    due_elections            leaders elected though nobody asks: preferred ones, and unclean where that is allowed
    alter_partition          ISRs as the leaders want them
    assign_replicas_to_dirs  in which of its directories a broker has which replicas
    reassignments            partitions on their way to other replicas
    features                 the levels of features
    alter_configs            configurations of every kind of resource; what each can have: topic_configs, group_configs,
                             client_metrics_configs and, for brokers, `controller.configs.alterations`
    election_configs         what follows for partitions when configurations change
    client_quotas            quotas of users, clients and addresses
    producer_ids             blocks of producer ids

A command decides on an image and changes nothing; its records hold once they are committed. What is wrong with a
request is told in the response, at the topic or resource it belongs to; commands of the broker itself raise KafkaError.
"""
