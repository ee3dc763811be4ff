"""From a host to a machine profile: plan, runner, samples."""
