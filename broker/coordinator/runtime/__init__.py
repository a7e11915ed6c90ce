"""What coordinators share: shards that are loaded and unloaded with the leadership of their partition."""
