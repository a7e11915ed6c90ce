"""Everything that changes the cluster's metadata: image and request in, records and response out.

    decision       what a command gives
    bootstrap      the first records of a new cluster
    brokers        registration, fencing and unfencing
    topics         creation and deletion
    partitions     more partitions for a topic
    directories    in which of its directories a broker has a replica
    assignment     replicas of a new partition, placed or assigned by hand
    topic_configs  which settings a topic can have
    alter_configs  configurations of topics and brokers
    client_quotas  quotas of users, clients and addresses
    producer_ids   blocks of producer ids

A command decides on an image and changes nothing; its records hold once they are committed. What is wrong with a
request is told in the response, at the topic or resource it belongs to; commands of the broker itself raise KafkaError.
"""
