"""The routes POST /generate and GET /health of Atropos' vLLM server, for the current vLLM version.

The handler is copied from `example_trainer/vllm_api_server.py` of Atropos (MIT). That file imports two names from
modules in which the current vLLM no longer defines them.
"""

from __future__ import annotations

from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.serve.utils.api_utils import with_cancellation
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.utils import random_uuid
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM

app = FastAPI()


@app.get("/health")
async def health() -> Response:
    return Response()


@app.post("/generate")
async def generate(request: Request) -> Response:
    return await answer(await request.json(), raw_request=request)


@with_cancellation
async def answer(asked: dict[str, Any], raw_request: Request) -> Response:
    engine: AsyncLLM = app.state.engine
    prompt = asked.pop("prompt")
    sampling = SamplingParams(**asked, output_kind=RequestOutputKind.FINAL_ONLY)
    final = None
    async for output in engine.generate(prompt, sampling, random_uuid()):
        final = output
    assert final is not None
    reply = {
        "text": [one.text for one in final.outputs],
        "prompt": final.prompt or engine.tokenizer.decode(final.prompt_token_ids),
        "finish_reasons": [one.finish_reason for one in final.outputs],
    }
    if sampling.logprobs is not None:
        reply["logprobs"] = [
            [[{token: value.logprob for token, value in place.items()}] for place in one.logprobs]
            for one in final.outputs
        ]
        reply["prompt_token_ids"] = final.prompt_token_ids
        reply["token_ids"] = [one.token_ids for one in final.outputs]
    return JSONResponse(reply)


def main() -> None:
    parser = FlexibleArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    options = AsyncEngineArgs.add_cli_args(parser).parse_args()
    app.state.engine = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(options))
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
