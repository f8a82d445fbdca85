"""The memory that this process takes."""

import sys


def resident() -> int:
    """What it takes now, in bytes; where the system does not say, the most it took."""
    try:
        import resource
    except ImportError:
        return 0
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
