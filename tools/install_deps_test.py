#!/usr/bin/env python3
"""tools/install_deps.sh installs servers without starting them, and restores files that it replaced.

Nothing is installed: programs in front of PATH stand in for apt-get, dpkg-query, id and sudo, and the policy script
lies in a folder of the test. The stand-in of apt-get asks the policy script, as Debian's packages do.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "install_deps.sh"
MARK = "# Written by install_deps.sh."

# Packages named in $FAKE/installed are installed. An init script belongs to the package of its name.
DPKG_QUERY = """#!/bin/sh
if [ "$1" = -S ]; then echo "${2##*/}: $2"; exit 0; fi
grep -qxF "$3" "$FAKE/installed" && echo "install ok installed"
"""
APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$FAKE/log"
[ "$1" = install ] || exit 0
for service in redis-server mosquitto; do
  "$TUTTI_POLICY_RC" "$service" start
  echo "$service start $?" >> "$FAKE/log"
done
"$TUTTI_POLICY_RC" redis-server stop
echo "redis-server stop $?" >> "$FAKE/log"
[ ! -e "$FAKE/stall" ] || sleep 30
[ ! -e "$FAKE/fail" ]
"""
# The release of Debian has the packages named in $FAKE/known, one a line.
APT_CACHE = """#!/bin/sh
grep -Ex "$3" "$FAKE/known"
"""


class InstallDeps(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-deps-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bin").mkdir()
        self.policy = self.folder / "policy-rc.d"
        self.list = self.folder / "packages.txt"
        self.list.write_text("# a comment\nredis-server\nmosquitto\nninja-build\n")
        self.installed("ninja-build")
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.program("apt-cache", APT_CACHE)
        self.program("id", "#!/bin/sh\necho 0\n")
        for name in ("update-rc.d", "deb-systemd-helper", "systemctl"):
            self.program(name, f'#!/bin/sh\necho "{name} $*" >> "$FAKE/log"\n')

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def installed(self, *names):
        (self.folder / "installed").write_text("".join(name + "\n" for name in names))

    def environment(self):
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "FAKE": str(self.folder),
                "TUTTI_POLICY_RC": str(self.policy)}

    def call(self, status=0):
        done = subprocess.run([str(SCRIPT), str(self.list)], env=self.environment(), text=True, capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def log(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def test_installs_only_what_is_missing(self):
        self.call()
        self.assertIn("apt-get install -y --no-install-recommends mosquitto redis-server", self.log())

    def test_the_name_of_this_release_is_installed(self):
        self.list.write_text("libboost1.81-dev|libboost1.83-dev|libboost-dev\nlibgrpc++-dev|libgrpc-dev\n")
        (self.folder / "known").write_text("libboost1x83-dev\nlibboost1.83-dev\nlibboost-dev\nlibgrpc++-dev\n")
        self.call()
        self.assertIn("apt-get install -y --no-install-recommends libboost1.83-dev libgrpc++-dev", self.log())
        self.installed("libboost-dev", "libgrpc++-dev")
        self.assertEqual(self.call(), "")  # another name that is there is enough

    def test_a_name_that_no_release_has_is_left_to_apt(self):
        self.list.write_text("no-such|none-such\n")
        (self.folder / "known").write_text("such\n")
        self.call()
        self.assertIn("apt-get install -y --no-install-recommends none-such", self.log())

    def test_does_nothing_when_all_is_installed(self):
        self.installed("ninja-build", "redis-server", "mosquitto")
        self.assertEqual(self.call(), "")
        self.assertEqual(self.log(), [])

    def test_new_services_are_not_started(self):
        said = self.call()
        self.assertIn("redis-server start 101", self.log())
        self.assertIn("mosquitto start 101", self.log())
        self.assertIn("installed and left stopped: mosquitto redis-server", said)
        self.assertFalse(self.policy.exists())

    def test_services_may_be_stopped(self):
        self.call()
        self.assertIn("redis-server stop 0", self.log())

    def test_a_policy_of_the_system_is_put_back(self):
        (self.folder / "own").write_text("#!/bin/sh\nexit 0\n")
        self.policy.symlink_to("own")
        self.call()
        self.assertEqual(os.readlink(self.policy), "own")

    def test_a_policy_of_the_system_is_still_asked(self):
        self.policy.write_text("#!/bin/sh\nexit 102\n")
        self.policy.chmod(0o755)
        self.call()
        self.assertIn("redis-server stop 102", self.log())
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 102\n")

    def test_a_failed_installation_puts_the_policy_back(self):
        self.policy.write_text("#!/bin/sh\nexit 0\n")
        (self.folder / "fail").touch()
        self.assertIn("package installation failed", self.call(status=1))
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 0\n")

    def test_a_signal_puts_the_policy_back(self):
        self.policy.write_text("#!/bin/sh\nexit 0\n")
        (self.folder / "stall").touch()
        process = subprocess.Popen([str(SCRIPT), str(self.list)], env=self.environment(), start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + 30
        while "redis-server stop 0" not in self.log() and time.time() < end:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(30), 143)
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 0\n")

    def test_a_script_that_a_killed_run_left_is_removed(self):
        self.policy.write_text(f"#!/bin/sh\n{MARK}\nexit 101\n")
        (self.folder / "policy-rc.d.before-install-deps").write_text("#!/bin/sh\nexit 0\n")
        self.call()
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 0\n")

    def test_without_rights_the_command_is_printed(self):
        self.program("id", "#!/bin/sh\necho 1000\n")
        self.program("sudo", "#!/bin/sh\nexit 1\n")
        self.assertIn(f"Please run: sudo {SCRIPT} {self.list}", self.call(status=1))


class PackageLists(unittest.TestCase):
    def names(self, name):
        lines = (SCRIPT.parent.parent / "cmake" / name).read_text().splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    def test_what_only_tests_need_is_not_installed_for_a_build(self):
        build, tests = self.names("packages.txt"), self.names("packages-test.txt")
        self.assertEqual(build & tests, set())
        for name in ("mosquitto", "redis-server", "rabbitmq-server", "g++-aarch64-linux-gnu", "libgtest-dev"):
            self.assertIn(name, tests)


if __name__ == "__main__":
    unittest.main()
