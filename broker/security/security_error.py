"""The error of security settings that cannot be applied."""


class SecurityError(Exception):
    """The security settings of a listener cannot be applied; the message names setting, file and remedy."""
