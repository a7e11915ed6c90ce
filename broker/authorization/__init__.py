"""Authorization of requests, if `authorizer.class.name` is set (Kafka: `AuthHelper`, and the checks in `KafkaApis`).

    requirement          what a request needs: rows of `broker.routes`
    request_authorizer   the decisions about a request's client; refusals are counted and logged
    audit_log            one line for refusals of the same kind
    guards               guards made from requirements
    produce, metadata, topics, groups, transactions, configs, cluster, fetch
                         guards of single APIs: those whose rules rows cannot express

A guard is called in place of an API's handler. It refuses a request, or passes the authorized part on to the handler
and completes the response. The dispatcher chooses the guards at the first request of an API; without an authorizer
there are none.
"""
