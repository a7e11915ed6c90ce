"""The coordinator runtime (Kafka: `CoordinatorRuntime`): shards, loaded and unloaded with partition leadership."""
