"""The GoogleTest programs that have tests for a real device, which RPCRDMA_LAB_ADDRESS (session.py) switches on."""
import re

from machine import Failure
from session import scenario

SECONDS = 300  # an emulated CPU; siwarp's 219 tests take 4 s there


def run_tests(session, name, pattern, *settings):
    programs = [path for path in session.build.rglob(name) if path.is_file()]
    if len(programs) != 1:
        raise Failure(f"no program {name} below {session.build.name}")
    # The command finds the provider by itself; test programs lie in folders of their own.
    tests = session.guest.start(name, ["env", f"RPCRDMA_PROVIDER_DIR={session.build / 'lib'}", *settings,
                                       programs[0],
                                       f"--gtest_filter={pattern}", "--gtest_brief=0"])
    tests.wait(SECONDS)
    output = tests.out()
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", output, re.MULTILINE)))
    running = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    passed = len(re.findall(r"^\[       OK \]", output, re.MULTILINE))
    skipped = len(re.findall(r"^\[  SKIPPED \] \S+ \(", output, re.MULTILINE))
    if not running:
        raise tests.failure(f"ran no test: none is named {pattern}")
    if failed:
        names = " ".join(failed[:6]) + (" ..." if failed[6:] else "")
        raise tests.failure(f"{len(failed)} of {len(running)} failed: {names}; it ended")
    if tests.status() != 0:
        raise tests.failure(f"ended with {tests.status()} in {running[-1]}")
    if not passed:
        raise tests.failure(f"skipped all of {len(running)} tests")
    return f"{passed} tests" + (f", {skipped} skipped" if skipped else "")


@scenario("conformance", "guest verbs → guest verbs", "conformance_test, fabrics verbs*")
def conformance(session):
    return run_tests(session, "conformance_test", f"*{session.stand_in or 'verbs'}*-Verbs*:*/Verbs*")


@scenario("verbs-test", "guest verbs → guest verbs", "conformance_test, Verbs*: the provider on its device")
def verbs_test(session):
    return run_tests(session, "conformance_test", "Verbs*:*/Verbs*")


# Suites of system_test whose tests run over siwarp elsewhere: in the lab the device takes its place (rpc_fixture.cc).
# The second list leaves out tests of what siwarp alone does: registrations for each attach, and a child that goes on
# after fork (death tests).
SYSTEM_SUITES = {
    "rpc": (("Rpc*",), ()),
    "chunks": (("Transport",), ()),
    "rfc5666": (("Rfc5666*",), ()),
    "backward": (("Backward*", "LastingBackward*"), ()),
    "reconnect": (("Reconnect*",), ("RegisteredMemoryIsRegisteredWithTheNextConnection",)),
    "coroutine": (("Coroutine*",), ("SaysThatACallIsUnderWayWhenItIsDestroyed", "SaysThatItDestroysTheClientThatResumedIt")),
    "registered_memory": (("RegisteredMemory*",),
                          ("CallsInItRegisterNothing", "PlacesAreNotInMemoryThatIsOnlyRead", "EndsWithItsHandle",
                           "ServerRegistersResultsOnceForEachConnection")),
    "credits": (("SharedCredits*",), ()),
}
# siw's user library does not tell what was invalidated, so that a client on it asks for nothing.
NOT_ON_SIW = ("RemoteInvalidationSparesTheClientItsOwn",)


def on_the_device(session, suites, left_out=()):
    wanted = ":".join(f"*/{suite}.*iwarp*" for suite in suites)
    without = [*left_out, *(NOT_ON_SIW if session.device == "siw" else ())]
    return wanted + ("-" + ":".join(f"*{each}*" for each in without) if without else "")


def system(suites, left_out):
    return lambda session: run_tests(session, "system_test", on_the_device(session, suites, left_out))


for area, (suites, names) in SYSTEM_SUITES.items():
    if area != "credits":  # of interest where Receives are shared
        scenario(f"system-{area}", "guest verbs → guest verbs",
                 f"system_test, {', '.join(suites)}: calls over the library")(system(suites, names))


# The same over connections that share their Receives; where the Receives are is nothing that calls notice.
@scenario("shared-receives", "guest verbs → guest verbs", "calls where connections share the Receives of the device")
def shared_receives(session):
    # The suite `credits` has servers of 16 Receives, and up to 21 clients; the others have more calls under way.
    return "; ".join(run_tests(session, "system_test", on_the_device(session, SYSTEM_SUITES[area][0]),
                               f"RPCRDMA_LAB_SHARED={count}")
                     for area, count in (("rpc", 512), ("chunks", 512), ("credits", 21)))
