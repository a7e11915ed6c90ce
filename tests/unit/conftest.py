"""Settings of Hypothesis for unit tests: no example fails because the machine is busy."""

from hypothesis import HealthCheck, settings

# By default an example fails after 200 ms, and a test whose first examples take more than 1 s to generate.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
