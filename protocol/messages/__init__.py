"""One file an API, each holding its request and its response in every version that Kafka 4.3 speaks."""
