"""unittest's main, which also prints what took longest: cases, and the start of servers that several cases share.

    timed.py FILE.xml [arguments as for unittest]      writes the times as a JUnit report; "" writes none
"""
import signal
import sys
import time
import unittest
import xml.etree.ElementTree as xml

SHOWN = 20


class TimedResult(unittest.TextTestResult):
    """Measures each test. Time between the end of one case and the beginning of the next counts for the later one's
    class."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.times, self.last = [], time.monotonic()

    def pass_time(self, name):
        now = time.monotonic()
        if not name.endswith(".setUpClass") or now - self.last > 0.01:
            self.times.append((now - self.last, name))
        self.last = now

    def startTest(self, test):
        self.pass_time(f"{type(test).__module__}.{type(test).__qualname__}.setUpClass")
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.pass_time(test.id())


class TimedRunner(unittest.TextTestRunner):
    resultclass = TimedResult

    def run(self, test):
        result = super().run(test)
        files = {}
        for seconds, name in result.times:
            file = name.partition(".")[0]
            files[file] = files.get(file, 0) + seconds
        print("e2e: files by time: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(((s, n) for n, s in files.items()), reverse=True)))
        for seconds, name in sorted(result.times, reverse=True)[:SHOWN]:
            print(f"e2e: {seconds:7.2f} s  {name}")
        if report:
            suite = xml.Element("testsuite", name="e2e_test")
            for seconds, name in result.times:
                if name.endswith(".setUpClass"):
                    continue  # no case
                xml.SubElement(suite, "testcase", classname=name.rpartition(".")[0], name=name.rpartition(".")[2], time=f"{seconds:.3f}")
            xml.ElementTree(suite).write(report)
        return result


if __name__ == "__main__":
    report = sys.argv.pop(1)
    # A shell's background jobs ignore interrupts, nohup's ignore hang-ups, and so would every program that a case starts.
    for number, usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
    unittest.main(module=None, testRunner=TimedRunner)
