"""The broker process: everything with an event loop, and the pure machines that it drives."""
