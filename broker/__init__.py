"""The broker process: the event loop and all I/O, around the pure state machines of the other packages."""
