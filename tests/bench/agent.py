def idle_memory(d): pass
def latency(d): pass
