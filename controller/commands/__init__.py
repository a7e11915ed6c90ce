"""Commands that change the cluster's metadata: image and request in, records and response out.

    controller_result        the result of a command
    bootstrap                the first records of a new cluster
    registration             registration of brokers and controllers
    heartbeats               broker heartbeats and their state transitions
    brokers                  fencing, unfencing, unregistration, failed and cordoned directories
    topics                   creation and deletion of topics
    partitions               more partitions for a topic
    assignment               manual assignments, directories of new replicas, the record of a new partition
    elect_leaders            leader elections on request
    periodic_elections       preferred and unclean leader elections at intervals
    alter_partition          ISR changes by leaders
    assign_replicas_to_dirs  assignment of a broker's replicas to its directories
    reassignments            partition reassignments
    features                 levels of features
    alter_configs            configs of all resource types, with their checks (topic_configs; for brokers:
                             `controller.configs.alterations`)
    election_configs         partition changes that follow from config changes
    client_quotas            quotas of users, client ids and addresses
    acls                     access control entries
    producer_ids             blocks of producer ids

`controller.partition_change` builds every change of a partition; `controller.leader_and_isr_updates` does so for all
partitions of a broker.

A command decides on an image and changes nothing; its records take effect once they are committed. Errors of a request
are in the response, with the topic or resource that they concern; the broker's internal commands raise KafkaError.
Kafka: `QuorumController` and its control managers.
"""
