import { EngineClient } from "../engine/engine-client.ts";
import { AglError, messageOf } from "../errors.ts";
import { withoutSecrets } from "../secrets.ts";

const timeoutMs = 10_000;

/** The models of a server that runs elsewhere; its address ends in /v1. */
export async function listModels(url: string, apiKey: string): Promise<string[]> {
  try {
    return await new EngineClient({ origin: url.replace(/\/v1$/, ""), apiKey }).models(timeoutMs);
  } catch (error) {
    throw new AglError(
      "engine",
      withoutSecrets(`engine.url: ${url} does not list its models (${messageOf(error)})`),
      {
        remedy: "start the server first, and check its address",
      },
    );
  }
}
