"""Shared by the benchmarks: streams of digits, a measured row, and growth over a stream."""
