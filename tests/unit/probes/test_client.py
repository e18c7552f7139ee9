from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from extproc.detect import Kind
from extproc.probes import (
    BadStatus,
    Call,
    Client,
    ClientSettings,
    ClientTls,
    Misconfigured,
    NotJson,
    ProbeError,
    Refused,
    Target,
    TimedOut,
    Unreachable,
)
from tests.unit.probes.server import CHAT, COMPLETIONS, MODELS, USAGE, Server, chat, says, sends

SECRET = "sk-a-secret-that-nobody-may-see"
QUICK = ClientSettings(timeout=5, retries=1, pause=0.01)


@pytest.mark.parametrize(
    "ending", ["", "/", "/v1", "/v1/", "/api", "/api/v1"], ids=lambda each: each or "none"
)
async def test_a_base_url_may_end_with_v1_or_not(ending: str) -> None:
    place = ("/api" if "api" in ending else "") + CHAT
    async with (
        Server({place: chat("Hello.")}) as server,
        Client(Target(server.url + ending, "m")) as client,
    ):
        assert (await client.chat("Hi")).text == "Hello."


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://h", "http://", "http://h:x", "http://u:p@h", "http://h/?key=1"],
)
async def test_a_base_url_that_is_none_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(Misconfigured, match="base_url") as caught:
        async with Client(Target(url, "m")):
            pass
    assert "u:p" not in str(caught.value)


async def test_the_key_goes_to_the_server_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("THE_KEY", SECRET)
    refusal = says({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, 401)
    async with Server({CHAT: refusal}) as server:
        target = Target(server.url, "m", "THE_KEY")
        async with Client(target, QUICK) as client:
            with pytest.raises(BadStatus) as caught:
                await client.chat("Hi")
        assert server.requests[0][1]["Authorization"] == f"Bearer {SECRET}"
    error = caught.value
    told = [repr(target), repr(client), str(error), error.message, repr(error), repr(error.reply)]
    assert error.status == 401
    assert "THE_KEY" in str(error)
    assert not [text for text in [*told, caplog.text] if SECRET in text]


async def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(Misconfigured, match="NO_SUCH_KEY is not set"):
        async with Client(Target("http://127.0.0.1:1", "m", "NO_SUCH_KEY")):
            pass


async def test_a_key_that_no_header_takes_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("THE_KEY", f"{SECRET}\nx")
    with pytest.raises(Misconfigured, match="THE_KEY") as caught:
        async with Client(Target("http://127.0.0.1:1", "m", "THE_KEY")):
            pass
    assert SECRET not in str(caught.value)


async def test_nobody_listening_is_refused() -> None:
    async with Client(Target("http://127.0.0.1:9", "m"), QUICK) as client:
        with pytest.raises(Refused, match="nobody listens there"):
            await client.chat("Hi")


async def test_an_unknown_name_is_unreachable() -> None:
    async with Client(Target("http://no-such-host.invalid", "m"), QUICK) as client:
        with pytest.raises(Unreachable, match=r"no-such-host\.invalid"):
            await client.chat("Hi")


async def test_a_request_that_arrived_is_never_sent_again() -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        await asyncio.sleep(0)
        return web.Response()

    async with Server({CHAT: hang_up}) as server:
        async with Client(Target(server.url, "m"), QUICK) as client:
            with pytest.raises(Unreachable, match="the connection broke"):
                await client.chat("Hi")
        assert len(server.requests) == 1


async def test_a_connection_that_is_refused_is_tried_again() -> None:
    """The server comes up between two attempts."""
    async with Server({CHAT: chat("Hello.")}) as server:
        url = server.url
    again = Server({CHAT: chat("Hello.")})
    settings = ClientSettings(timeout=20, retries=50, pause=0.001)
    async with Client(Target(url, "m"), settings) as client:
        asking = asyncio.create_task(client.chat("Hi"))
        await asyncio.sleep(0.05)
        app = web.Application()
        app.router.add_post(CHAT, again._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", int(url.rpartition(":")[2])).start()
        try:
            assert (await asking).text == "Hello."
        finally:
            await runner.cleanup()


async def test_a_server_that_never_answers_times_out() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    async with (
        Server({CHAT: never}) as server,
        Client(Target(server.url, "m"), ClientSettings(timeout=0.2)) as client,
    ):
        with pytest.raises(TimedOut, match=r"0\.2 s"):
            await client.chat("Hi")


async def test_a_stream_that_stops_in_the_middle_times_out() -> None:
    async def stall(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
        await asyncio.sleep(3600)
        return response

    async with (
        Server({CHAT: stall}) as server,
        Client(Target(server.url, "m"), ClientSettings(timeout=0.3)) as client,
    ):
        with pytest.raises(TimedOut):
            await client.chat("Hi", stream=True)


async def test_what_is_no_json_is_said_so() -> None:
    async with (
        Server({CHAT: sends(b"<html>", "text/html"), "/v1/models": sends(b"{")}) as server,
        Client(Target(server.url, "m"), QUICK) as client,
    ):
        with pytest.raises(NotJson, match="text/html"):
            await client.chat("Hi")
        with pytest.raises(NotJson):
            await client.get_json("/v1/models")


async def test_a_servers_message_is_one_line_and_capped() -> None:
    async with (
        Server({CHAT: says({"error": {"message": "a\nb\x1b[31m" + "c" * 9999}}, 500)}) as s,
        Client(Target(s.url, "m"), QUICK) as client,
    ):
        with pytest.raises(BadStatus) as caught:
            await client.chat("Hi")
    assert len(caught.value.message) == 300
    assert caught.value.message.startswith("a b [31m")


async def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", SECRET)

    async def away(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere")

    async with Server({CHAT: away, "/elsewhere": chat("Stolen.")}) as server:
        async with Client(Target(server.url, "m", "THE_KEY"), QUICK) as client:
            with pytest.raises(BadStatus, match="redirects are not followed"):
                await client.chat("Hi")
        assert len(server.requests) == 1


async def test_an_answer_without_end_is_cut() -> None:
    async with (
        Server({CHAT: sends(b" " * 5000 + b"{}")}) as server,
        Client(Target(server.url, "m"), ClientSettings(body_bytes=1000)) as client,
    ):
        with pytest.raises(ProbeError, match="longer than 1000 bytes"):
            await client.chat("Hi")


async def test_the_model_is_asked_for_when_none_is_named() -> None:
    async with Server({CHAT: chat("Hello."), "/v1/models": MODELS}) as server:
        async with Client(Target(server.url), QUICK) as client:
            await client.chat("Hi")
        assert server.requests[-1][2]["model"] == "m"


async def test_every_answer_comes_judged() -> None:
    async with (
        Server({CHAT: chat("!" * 64, finish_reason="length")}) as server,
        Client(Target(server.url, "m")) as client,
    ):
        reply = await client.chat("Hi")
    assert reply.corrupt
    assert {finding.detector for finding in reply.findings} == {"repetition"}
    assert "!!!!" not in repr(reply)


async def test_an_error_that_admits_a_nan_is_judged_corrupt() -> None:
    message = "Out of range float values are not JSON compliant: nan"
    async with (
        Server({CHAT: says({"error": {"message": message, "code": 400}}, 400)}) as server,
        Client(Target(server.url, "m")) as client,
    ):
        with pytest.raises(BadStatus) as caught:
            await client.chat("Hi", logprobs=True)
    assert caught.value.reply is not None
    assert caught.value.reply.verdict.kind is Kind.CORRUPT


async def test_a_stream_is_put_together() -> None:
    def tool(index: int, **function: str) -> str:
        call = {"index": index, "function": function}
        return json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    messages = [
        '{"model":"served","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
        '{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}',
        '{"choices":[{"index":0,"delta":{"content":"One "}}]}',
        '{"choices":[{"index":0,"delta":{"content":"two"}}]}',
        tool(0, name="a", arguments='{"x":'),
        tool(1, name="b", arguments="{}"),
        tool(0, arguments="1}"),
        '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
        '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,'
        '"prompt_tokens_details":{"cached_tokens":4}}}',
        "[DONE]",
    ]
    body = "".join(f"data: {message}\n\n" for message in messages).encode()
    async with Server({CHAT: sends(body, "text/event-stream")}) as server:
        async with Client(Target(server.url, "m")) as client:
            reply = await client.chat("Hi", stream=True)
        sent = server.requests[0][2]
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert (reply.text, reply.reasoning) == ("One two", "Hm.")
    assert reply.calls == (Call("a", '{"x":1}'), Call("b", "{}"))
    assert (reply.model, reply.finish, reply.whole) == ("served", "tool_calls", True)
    assert reply.usage == (7, 9, 4)
    assert reply.usage.total == 16
    assert reply.timings.first_token is not None
    assert reply.timings.headers <= reply.timings.first_token <= reply.timings.total


async def test_a_stream_without_its_last_word_is_not_whole() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    async with (
        Server({CHAT: sends(body, "text/event-stream")}) as server,
        Client(Target(server.url, "m")) as client,
    ):
        assert not (await client.chat("Hi", stream=True)).whole


async def test_fields_of_the_target_go_with_every_generating_request() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    answers = {CHAT: chat("Hello."), COMPLETIONS: says({"choices": [{"text": "x"}]})}
    async with Server(answers) as server:
        target = Target(server.url, "m", headers={"x-team": "llm"}, extra=extra)
        async with Client(target) as client:
            await client.chat("Hi", temperature=0)
            await client.complete("Hi")
        for _, headers, body in server.requests:
            assert body["chat_template_kwargs"] == {"enable_thinking": False}
            assert headers["x-team"] == "llm"
        assert server.requests[0][2]["temperature"] == 0


def _authority(folder: Path) -> tuple[ssl.SSLContext, Path]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return context, file


async def test_tls_is_verified_unless_it_is_turned_off(tmp_path: Path) -> None:
    context, file = _authority(tmp_path)
    async with Server({CHAT: chat("Hello.")}, context) as server:
        async with Client(Target(server.url, "m"), QUICK) as client:
            with pytest.raises(Unreachable, match="certificate was refused"):
                await client.chat("Hi")
        for tls in (ClientTls(ca_file=file), ClientTls(verify=False)):
            async with Client(Target(server.url, "m", tls=tls), QUICK) as client:
                assert (await client.chat("Hi")).text == "Hello."


async def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    with pytest.raises(Misconfigured, match=r"none\.pem"):
        async with Client(Target("https://127.0.0.1:9", "m", tls=ClientTls(ca_file=file))):
            pass


async def test_usage_that_is_no_number_is_not_known() -> None:
    content = {"choices": [{"index": 0, "message": {"content": "a"}}], "usage": {**USAGE}}
    content["usage"]["prompt_tokens"] = "5"  # type: ignore[index]
    async with (
        Server({CHAT: says(content)}) as server,
        Client(Target(server.url, "m")) as client,
    ):
        reply = await client.chat("Hi")
    assert reply.usage.prompt == -1
    assert reply.usage.total == -1
