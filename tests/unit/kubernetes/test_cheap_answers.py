"""What is not looked at costs nothing: headers of answers, and values that like pods share."""

from __future__ import annotations

import asyncio

import pytest
from attrs import fields
from hypothesis import given

pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")
pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")

from gangsched.configuration import Settings
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._measure import Measures
from gangsched.model import Pod
from support.api_clients import client_of
from support.api_objects import Document, drawn_pods, pod, raw
from support.scripted_api import Answer, run, scripted_api


def in_parts(*parts: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        return True

    return write


FINAL = b"HTTP/1.1 404 Not Found\r\nRetry-After: 3\r\nX-Seen: final\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "parts",
    [
        (FINAL,),
        (FINAL[:30], FINAL[30:70], FINAL[70:]),
        (b"HTTP/1.1 103 Early Hints\r\nX-Seen: early\r\nX-Early: 1\r\n\r\n" + FINAL,),
        (b"HTTP/1.1 103 Early Hints\r\nX-Seen: early\r\nX-Early: 1\r\n\r\n", FINAL),
    ],
)
def test_headers_are_those_of_the_final_answer_however_it_comes(parts: tuple[bytes, ...]) -> None:
    async def story() -> None:
        async with scripted_api() as server, client_of("httptools", server.access) as client:
            server.answers(in_parts(*parts))
            for _ in range(2):  # the second answer on one connection, too
                answer = await client.request("POST", "/x", body=b"{}")
                assert (answer.status, answer.body) == (404, b"{}")
                assert dict(answer.headers) == {
                    "retry-after": "3",
                    "x-seen": "final",
                    "content-length": "2",
                }
                assert answer.retry_after == 3.0

    run(story())


def test_requests_are_counted_by_method_and_status() -> None:
    measures = Measures(Settings())
    for method, status in (("POST", 201), ("POST", 201), ("GET", 404), ("POST", 0)):
        measures.request(method, status)
    text = measures.pages(list)["/metrics"]().body.decode()
    found = sorted(line for line in text.splitlines() if line.startswith("rest_client"))
    assert found == [
        'rest_client_requests_total{code="201",method="POST"} 2.0',
        'rest_client_requests_total{code="404",method="GET"} 1.0',
        'rest_client_requests_total{code="<error>",method="POST"} 1.0',
    ]
    assert "# TYPE rest_client_requests_total counter" in text


def bound(document: Document) -> Document:
    """Return the echo of a bind of a pod."""
    spec = {**document.get("spec", {}), "nodeName": "n1"}
    return {**document, "spec": spec}


def test_echo_of_a_bind_shares_all_values_with_the_pod_before() -> None:
    decode, asked = PodDecoder(), {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "k"}]}
    for name in ("first", "second"):
        pending, echo = decode(raw(pod(name, **asked))), decode(raw(bound(pod(name, **asked))))
        assert echo.pod.node_name == "n1"
    apart = {
        each.name
        for each in fields(Pod)
        if getattr(pending.pod, each.name) is not getattr(echo.pod, each.name)
    }
    assert apart == {"name", "namespace", "uid", "pod_group", "node_name"}  # texts of its own
    assert decode.fast == 2


@given(documents=drawn_pods())
def test_values_of_like_pods_are_those_of_a_fresh_decoder(documents: list[Document]) -> None:
    """An equal value of another attribute, or of another type, never takes the place of one."""
    shared = PodDecoder()
    for document in [*documents, *map(bound, documents)] * 2:
        try:
            expected = PodDecoder()(raw(document))
        except Exception as error:
            with pytest.raises(type(error)):
                shared(raw(document))
            continue
        found = shared(raw(document))
        assert found == expected
        for each in fields(Pod):
            value = getattr(found.pod, each.name)
            assert type(value) is type(getattr(expected.pod, each.name)), each.name
