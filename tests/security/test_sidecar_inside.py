# SPDX-License-Identifier: Apache-2.0
"""The same ways around a policy as test_egress_inside.py tries them from sandboxes of a host, tried beside a sidecar."""
import os
import signal
import time

import pytest

from internet import BAD, FOREIGN, GOOD, OTHER, PRIVATE, WEB6
from network import rules, until_true
from sidecar import MISSING, net  # noqa: F401
from test_egress_inside import DENIED, denied, drip, each, guarded, loose, open_box, watch  # noqa: F401
from test_egress_inside import (  # noqa: F401
    test_answers_that_were_not_asked_for_change_nothing,
    test_a_resolver_that_is_silent_gives_no_answer_and_no_way,
    test_large_answers_come_over_tcp,
    test_short_lives_of_answers_do_not_cut_off,
    test_W1_marks_open_nothing,
    test_W1_no_way_to_a_raw_frame,
    test_W4_private_addresses_whatever_the_policy_says,
    test_W4_rebinding_to_a_private_address,
    test_W5_an_address_in_the_clothes_of_ipv6,
    test_W5_icmp_only_where_everything_is_allowed_and_slowly,
    test_W6_every_resolver_is_ours,
    test_W6_no_other_ways_to_ask,
    test_W6_only_addresses_are_asked_for_under_a_policy,
    test_W6_questions_are_made_anew,
    test_W6_some_types_are_empty_for_everybody,
    test_W6_there_is_a_budget,
    test_W6_what_is_no_question_goes_nowhere,
    test_W6_what_is_not_allowed_is_never_asked_for,
    test_W7_a_name_opens_tcp_at_few_ports,
    test_W7_learned_addresses_are_this_sandboxes_alone,
    test_W8_a_hello_in_small_pieces_and_a_slow_one,
    test_W8_no_name_no_way,
    test_W8_one_answer_to_many_names,
    test_W8_the_name_of_a_connection_has_to_be_the_one_that_was_asked_for,
    test_W9_a_change_cuts_nothing_that_is_allowed,
    test_W9_a_change_reaches_open_connections_within_a_second,
    test_W10_new_connections_have_a_rate,
    test_W11_whole_labels,
)

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def test_W4_names_that_lead_to_private_addresses(net, watch):  # noqa: F811
    b = net.box(rules(*[f"+private{i}.test" for i in range(len(PRIVATE))], "+mixed.test"))
    with watch() as w:
        found = b.py(f"[tried(resolve, f'private{{i}}.test') for i in range({len(PRIVATE)})]")
        assert b.py("resolve('mixed.test')") == [GOOD]
        found += b.py(f"all_of(*[(tls, a, f'private{{i}}.test') for i, a in enumerate({PRIVATE!r})], (http, {PRIVATE[0]!r}, 'mixed.test'))")
    assert all(f in (*DENIED, "NODATA", "NXDOMAIN", "EAI_AGAIN") for f in found), found
    assert not w.to(*PRIVATE)
    b.delete()


def test_W5_nothing_leaves_over_ipv6(each, watch):  # noqa: F811
    """The pod has an address and a route, so it is the rules that keep it."""
    with watch() as w:
        found = each.py(f"all_of((tcp, {WEB6!r}, 80), (tcp, {WEB6!r}, 443), (resolve, 'six.test', socket.AF_INET6))")
    denied(found[:2])
    assert found[2] in ("NXDOMAIN", "NODATA", "EAI_AGAIN"), found
    assert not [p for p in w.packets if ":" in p.target], w.packets[:3]


def test_W3_neither_the_relay_nor_the_resolver_is_of_use_by_itself(guarded, watch):  # noqa: F811
    with watch() as w:
        found = guarded.py(f"all_of((http, '127.0.0.1', 'good.test', 15080), (tls, '127.0.0.1', 'good.test', 15080), "
                           f"(http, '127.0.0.1', 'bad.test', 18080, '/policy'))")
    denied(found[:2])
    assert found[2] == "HTTP/1.1 401 Unauthorized"
    assert not w.to(BAD, GOOD)


@pytest.mark.parametrize("which", ["worker", "keeper"])
def test_W9_who_is_killed_opens_nothing_and_comes_back_with_the_same_policy(net, watch, which):  # noqa: F811
    b = net.box(rules("+good.test", f"+{OTHER}"))
    b.change("PATCH", [{"action": "allow", "target": "one.shared.test"}])
    assert b.py("web('good.test')")
    attempts = f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22), (udp, {BAD!r}, 9000), (http, {PRIVATE[0]!r}, 'x'))"
    with watch() as w:
        os.kill(b.worker() if which == "worker" else b.process.pid, signal.SIGKILL)
        denied(b.py(attempts))
        if which == "keeper":  # a container runtime starts it again
            b.process.wait()
            denied(b.py(attempts))
            b.start()
    assert not w.to(BAD, *PRIVATE), w.packets[:3]
    began = time.monotonic()
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")
    assert time.monotonic() - began < 5
    kept = ["+one.shared.test"] if which == "worker" else []  # without a file it is in the memory of the keeper
    assert b.policy()["policy"] == rules(*kept, "+good.test", f"+{OTHER}")
    assert b.py(f"[http({OTHER!r}, 'x')['address'], tried(resolve, 'bad.test')]") == [OTHER, "NXDOMAIN"]
    b.delete()


def test_W2_an_orderly_end_leaves_the_rules(net, watch):  # noqa: F811
    b = net.box(rules("+good.test"))
    b.process.send_signal(signal.SIGTERM)
    assert b.end() == 0
    with watch() as w:
        denied(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {GOOD!r}, 22), (udp, {BAD!r}, 9000), (ask, 'bad.test', 'A', {FOREIGN!r}))"))
    assert not w.packets, w.packets[:3]
    b.delete()


def test_W2_rules_that_somebody_removes_come_back(net, watch):  # noqa: F811
    b = net.box(rules("+good.test"))
    b.netns.run("nft", "delete table inet opensandbox")
    until_true(lambda: "guarded_ones" in b.table_or_none(), 60, "the rules")
    until_true(b.is_healthy, 60, "the sidecar")
    with watch() as w:
        denied(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22))"))
    assert b.py("web('good.test')") and not w.to(BAD)
    b.delete()


def test_E4_flows_that_began_before_the_rules_end(net):  # noqa: F811
    p = net.pod(rules("+good.test"))
    p.netns.run("nft", "add table ip early; add chain ip early out { type filter hook output priority 0; }; add rule ip early out ct state new accept")
    last = drip(p, BAD, 80, "bad.test", 20)
    p.start()
    time.sleep(2.5)
    assert time.time() - last() > 1
    p.netns.run("nft", "delete table ip early")
    p.delete()


def test_E26_redirects_of_others_change_nothing_and_are_told(net, watch):  # noqa: F811
    """A service mesh sends every connection of the pod to a proxy of its own, and DNS as well."""
    p = net.pod(rules("+good.test"))
    p.netns.run("nft", "add table ip mesh; add chain ip mesh out { type nat hook output priority -100; }; "
                       "add rule ip mesh out meta l4proto tcp redirect to :15001; add rule ip mesh out udp dport 53 redirect to :15001")
    p.start()
    with watch() as w:
        assert p.py("web('good.test')")["host"] == "good.test"
        denied(p.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22))"))
    assert not w.to(BAD)
    assert "others redirect" in p.log()
    p.delete()
