from hypothesis import HealthCheck, settings

# The first call compiles, and the machine is shared: time says nothing about correctness. The same examples
# in every run: what fails fails for whoever looks into it.
settings.register_profile(
    "ddol",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ddol")
