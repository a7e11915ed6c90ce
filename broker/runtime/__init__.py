"""What every part of a broker runs on: deferred results, cooperative steps, purgatories and executors."""
