import * as v from "valibot";
import { directFetch } from "../client/loopback-fetch.ts";
import { AglError, messageOf } from "../errors.ts";

/** Where a model server listens: on a Unix socket of ours, or at a URL. */
export interface EngineAddress {
  /** Without a path: `http://127.0.0.1:12316`, or any host name when `unixSocket` is set. */
  origin: string;
  unixSocket?: string;
  /** Of a server that somebody else runs. */
  apiKey?: string;
}

const modelList = v.object({ data: v.array(v.object({ id: v.string() })) });

const probeAnswer = v.object({
  prompt_token_ids: v.pipe(v.array(v.number()), v.minLength(1)),
  choices: v.pipe(
    v.array(v.object({ token_ids: v.pipe(v.array(v.number()), v.minLength(1)) })),
    v.minLength(1),
  ),
});

const logprobsAnswer = v.object({
  choices: v.pipe(
    v.array(
      v.object({
        prompt_logprobs: v.array(v.nullable(v.record(v.string(), v.object({ logprob: v.number() })))),
      }),
    ),
    v.minLength(1),
  ),
});

/** The few calls that the supervisor itself makes to a vLLM server. */
export class EngineClient {
  readonly #address: EngineAddress;

  constructor(address: EngineAddress) {
    this.#address = address;
  }

  async isHealthy(timeoutMs: number): Promise<boolean> {
    try {
      const response = await this.#send("GET", "/health", undefined, timeoutMs);
      await response.arrayBuffer();
      return response.ok;
    } catch {
      return false;
    }
  }

  async models(timeoutMs: number): Promise<string[]> {
    return v
      .parse(modelList, await this.#json("GET", "/v1/models", undefined, timeoutMs))
      .data.map(({ id }) => id);
  }

  /** One real generation that must come back with token ids: a healthy port alone proves nothing. */
  async generateOnce(model: string, timeoutMs: number): Promise<void> {
    const body = {
      model,
      messages: [{ role: "user", content: "1+1" }],
      max_tokens: 2,
      temperature: 0,
      return_token_ids: true,
    };
    const answer = await this.#json("POST", "/v1/chat/completions", body, timeoutMs);
    if (!v.is(probeAnswer, answer)) {
      throw new AglError("engine", "the engine answers without token ids", {
        remedy: "use a vLLM release that knows return_token_ids (0.10.2 or later)",
      });
    }
  }

  /** Log-probabilities of `ids` under the served weights; the first token has none. */
  async promptLogprobs(model: string, ids: number[], timeoutMs: number): Promise<number[]> {
    const body = { model, prompt: ids, max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
    const answer = v.parse(logprobsAnswer, await this.#json("POST", "/v1/completions", body, timeoutMs));
    const positions = answer.choices[0]?.prompt_logprobs ?? [];
    return positions.slice(1).map((position, index) => {
      const found = position?.[String(ids[index + 1])];
      if (found === undefined)
        throw new AglError("engine", `no log-probability for prompt token ${index + 1}`);
      return found.logprob;
    });
  }

  /** Loads other weights into the running server, then forgets the cached prefixes of the old ones. */
  async reloadWeights(folder: string, timeoutMs: number): Promise<void> {
    await this.#loadWeights(folder, timeoutMs);
    await this.#command("/reset_prefix_cache", timeoutMs);
  }

  /** Gives the GPU's memory back: KV cache and weights, which only come back with `wake`. */
  async sleep(timeoutMs: number): Promise<void> {
    await this.#command("/sleep?level=2", timeoutMs);
  }

  /** Takes the memory again and fills it with the weights of a folder. */
  async wake(folder: string, timeoutMs: number): Promise<void> {
    // Weights before the KV cache: both at once may not fit while files are read.
    await this.#command("/wake_up?tags=weights", timeoutMs);
    await this.#loadWeights(folder, timeoutMs);
    await this.#command("/wake_up?tags=kv_cache", timeoutMs);
    await this.#command("/reset_prefix_cache", timeoutMs);
  }

  async #loadWeights(folder: string, timeoutMs: number): Promise<void> {
    const body = { method: "reload_weights", kwargs: { weights_path: folder } };
    await this.#json("POST", "/collective_rpc", body, timeoutMs);
  }

  async #command(path: string, timeoutMs: number): Promise<void> {
    await this.#text("POST", path, undefined, timeoutMs);
  }

  async #json(method: string, path: string, body: unknown, timeoutMs: number): Promise<unknown> {
    const text = await this.#text(method, path, body, timeoutMs);
    try {
      return text === "" ? null : JSON.parse(text);
    } catch (error) {
      throw new AglError("engine", `${path} answered no JSON: ${text.slice(0, 200)}`, { cause: error });
    }
  }

  async #text(method: string, path: string, body: unknown, timeoutMs: number): Promise<string> {
    let response: Response;
    let text: string;
    try {
      response = await this.#send(method, path, body, timeoutMs);
      text = await response.text();
    } catch (error) {
      throw new AglError("engine", `${path}: ${messageOf(error)}`, { cause: error });
    }
    if (!response.ok)
      throw new AglError("engine", `${path} answered ${response.status}: ${text.slice(0, 400)}`);
    return text;
  }

  #send(method: string, path: string, body: unknown, timeoutMs: number): Promise<Response> {
    return directFetch(this.#address.origin + path, {
      method,
      signal: AbortSignal.timeout(timeoutMs),
      ...(this.#address.unixSocket === undefined ? {} : { unix: this.#address.unixSocket }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(this.#address.apiKey === undefined ? {} : { authorization: `Bearer ${this.#address.apiKey}` }),
      },
    });
  }
}
