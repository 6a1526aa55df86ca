"""Arrays and devices, memory, threads, random numbers, checks and files: used by every layer."""
