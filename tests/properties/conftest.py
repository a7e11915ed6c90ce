"""Hypothesis defaults: the number of examples that `examples` has, without a deadline."""

from hypothesis import HealthCheck, settings

from tests.examples import examples

settings.register_profile(
    "figures", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("figures")
