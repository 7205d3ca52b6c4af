# SPDX-License-Identifier: Apache-2.0
"""GET /sandboxes: which, in what order, and how many at a time."""
from urllib.parse import quote, urlencode

import pytest

from api import STAY, Api

SIZE = 23


@pytest.fixture(scope="module")
def made(api):
    """What there is, the oldest first: SIZE sandboxes, most of which run."""
    boxes = []
    for i in range(SIZE):
        end = {3: ["true"], 4: ["false"], 5: ["false"]}.get(i, STAY)
        metadata = {"i": str(i), "parity": "odd" if i % 2 else "even", "x.y/z": "a-b_c.d", "empty": "", "case": "Aa"}
        boxes.append(api.create(entrypoint=end, metadata=metadata, timeout=600 if i == 9 else None)["id"])
    api.pause(boxes[1])
    api.pause(boxes[2])
    api.wait_state(boxes[3], "Terminated")
    for i in (4, 5):
        api.wait_state(boxes[i], "Failed")
    return boxes


def listed(api, query=""):
    """The ids of a list, as places in `made`'s order of creation, and its pagination."""
    a = api.get(f"/sandboxes{'?' if query else ''}{query}")
    assert a.status == 200, a
    return a.json["items"], a.json["pagination"]


def ids(api, query=""):
    return [s["id"] for s in listed(api, f"pageSize=200{'&' if query else ''}{query}")[0]]


def test_the_newest_comes_first_and_is_what_a_get_shows(api, made):
    items, pagination = listed(api, "pageSize=200")
    assert [s["id"] for s in items] == made[::-1]
    times = [s["createdAt"] for s in items]
    assert times == sorted(times, reverse=True)
    assert pagination == {"page": 1, "pageSize": 200, "totalItems": SIZE, "totalPages": 1, "hasNextPage": False}
    for item in items[::5]:
        assert item == api.read(item["id"])


@pytest.mark.parametrize(
    "query, want",
    [
        ("state=Paused", {1, 2}), ("state=paused", {1, 2}), ("state=PAUSED", {1, 2}), ("state=Terminated", {3}),
        ("state=Failed", {4, 5}), ("state=Paused&state=Failed", {1, 2, 4, 5}), ("state=Allocated&state=Terminated", {3}),
        ("state=Running", set(range(SIZE)) - {1, 2, 3, 4, 5}), ("state=Allocated", set()), ("state=nonsense", set()),
        ("state=", set()), ("state=&state=Terminated", {3}), ("state=Pending", set()), ("state=Paused,Failed", set()),
        ("state=Paused%20", set()), ("State=Paused", set(range(SIZE))),
    ],
)  # fmt: skip
@pytest.mark.smoke
def test_states_are_alternatives(api, made, query, want):
    assert {made.index(i) for i in ids(api, query)} == want


@pytest.mark.parametrize(
    "pairs, want",
    [
        ("i=7", {7}), ("i=7&parity=odd", {7}), ("i=7&parity=even", set()), ("parity=even", set(range(0, SIZE, 2))),
        ("x.y/z=a-b_c.d&i=1", {1}), ("empty=&i=2", {2}), ("i=7&i=8", {8}), ("nothing=x", set()), ("case=aa", set()),
        ("Case=Aa", set()), ("i=", set()), ("", set(range(SIZE))), ("i%3D7=", set()), ("i=%37", {7}), ("i=+7", set()),
        ("x.y%2Fz=a-b_c.d&i=3", {3}),
    ],
)  # fmt: skip
def test_metadata_must_all_be_there(api, made, pairs, want):
    assert {made.index(i) for i in ids(api, f"metadata={quote(pairs, safe='')}")} == want


def test_metadata_as_each_client_encodes_it(api, made):
    twice = urlencode({"metadata": urlencode({"x.y/z": "a-b_c.d", "i": "7"})})  # Go
    once = urlencode({"metadata": "x.y/z=a-b_c.d&i=7"})  # the others
    assert ids(api, twice) == ids(api, once) == [made[7]]


@pytest.mark.parametrize("text", ["a", "a=b&", "&a=b", "a=b&&c=d", "&", "a=b&c", "a=%zz", "a=%f"])
def test_metadata_that_cannot_be_read(api, text):
    a = api.get(f"/sandboxes?metadata={quote(text, safe='')}")
    api.refused(a, 400, "INVALID_METADATA_FORMAT", "bad query field", "metadata")


def test_filters_work_together(api, made):
    assert ids(api, "state=Failed&state=Paused&metadata=parity%3Deven") == [made[4], made[2]]
    items, pagination = listed(api, "state=running&metadata=parity%3Dodd&pageSize=2&page=2")
    odd = [i for i in range(SIZE) if i % 2 and i > 5][::-1]
    assert [made.index(s["id"]) for s in items] == odd[2:4]
    assert pagination["totalItems"] == len(odd)


@pytest.mark.parametrize("size", [1, 5, 7, 20, 23, 24, 200])
def test_pages_have_everything_once(api, made, size):
    seen, page, more = [], 1, True
    while more:
        items, pagination = listed(api, f"page={page}&pageSize={size}")
        pages = -(-SIZE // size)
        assert pagination == {"page": page, "pageSize": size, "totalItems": SIZE, "totalPages": pages,
                              "hasNextPage": page < pages}  # fmt: skip
        seen += [s["id"] for s in items]
        more, page = pagination["hasNextPage"], page + 1
    assert seen == made[::-1]


def test_twenty_are_shown_when_nobody_says_how_many(api, made):
    items, pagination = listed(api)
    assert [s["id"] for s in items] == made[::-1][:20]
    assert pagination == {"page": 1, "pageSize": 20, "totalItems": SIZE, "totalPages": 2, "hasNextPage": True}


def test_a_page_past_the_end_is_empty(api, made):
    for page in (3, 1000, 2**31, 2**53, 2**63 - 1):
        items, pagination = listed(api, f"page={page}")
        assert items == [] and not pagination["hasNextPage"]
        assert (pagination["page"], pagination["totalItems"], pagination["totalPages"]) == (page, SIZE, 2)


def test_nothing_has_no_pages(api, made):
    items, pagination = listed(api, "state=none")
    assert items == []
    assert pagination == {"page": 1, "pageSize": 20, "totalItems": 0, "totalPages": 0, "hasNextPage": False}


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("name", ["page", "pageSize"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5", "9" * 30, "1e2", "true", "0x1", "1 2"])
def test_numbers_that_cannot_be_are_named(server, spec, prefix, name, value):
    api = Api(server, spec, prefix)
    a = api.refused(api.get(f"/sandboxes?{name}={quote(value)}"), 422, "SANDBOX::INVALID_PARAMETER", name)
    assert a.json["detail"][0]["loc"] == ["query", name]


def test_a_page_of_more_than_200_is_refused(api):
    a = api.refused(api.get("/sandboxes?pageSize=201"), 422, "SANDBOX::INVALID_PARAMETER", "pageSize", "200")
    assert (a.json["detail"][0]["type"], a.json["detail"][0]["ctx"]) == ("less_than_equal", {"le": 200})


def test_other_parameters_are_ignored(api, made):
    assert ids(api, "page_size=1&foo=bar&foo&=&%20=%20") == made[::-1]
