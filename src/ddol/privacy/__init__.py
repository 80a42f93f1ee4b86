"""Differential privacy of what a site sends; see docs/leaks.md."""

from ddol.lazy import home_of, lookup

_HOME_OF = home_of(
    {
        "ddol.privacy.budget": "Budget parse_privacy",
        "ddol.privacy.site": "Known PrivateSite",
        "ddol.privacy.together": "Private Result learn_privately",
    }
)
__getattr__ = lookup(__name__, _HOME_OF)
