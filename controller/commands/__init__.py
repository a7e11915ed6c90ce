"""Everything that changes the cluster's metadata: image and request in, records and response out.

    decision       what a command gives
    bootstrap      the first records of a new cluster
    brokers        registration, fencing and unfencing
    topics         creation and deletion
    partitions     more partitions for a topic
    alter_configs  configurations of topics and brokers
    producer_ids   blocks of producer ids

A command decides on an image and changes nothing; its records hold once they are committed. Nothing that a request asks
for can make a command raise: errors are in the response, at the topic or resource they belong to.
"""
