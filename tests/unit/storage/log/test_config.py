from controller.configs.definition import parse_value
from controller.configs.log_config import log_config
from controller.configs.topic import TOPIC_CONFIGS
from storage.log.config import LogConfig


def test_the_defaults_are_those_of_the_topic_configurations() -> None:
    defaults = {name: parse_value(definition, definition.default) for name, definition in TOPIC_CONFIGS.items()}
    assert log_config(defaults) == LogConfig()
