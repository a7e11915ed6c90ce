"""One module for each API, with its request and response in every version that Kafka 4.3 supports."""
