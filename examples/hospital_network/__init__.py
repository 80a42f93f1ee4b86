"""Five hospitals with certificates, behind a relay."""
