"""What Hypothesis does where a test does not say: as often as `examples` has it, however long each takes."""

from hypothesis import HealthCheck, settings

from tests.examples import examples

settings.register_profile(
    "figures", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("figures")
