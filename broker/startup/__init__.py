"""How a broker process is started: the options of `barnabas serve`, a container's environment, the fork server."""
