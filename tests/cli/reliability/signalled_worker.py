"""A worker process that reports the signal it receives. It imports nothing of edl, so that it starts quickly."""

import signal
import threading


def report_signal(ready, told):
    received = threading.Event()

    def report(number, frame):
        told.put(int(number))
        received.set()

    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, report)
    ready.set()
    received.wait(60)
