import { AglError } from "../errors.ts";
import { nearest } from "../nearest.ts";
import type { FetchError } from "./fetch-lines.ts";
import type { HubName } from "./hub-name.ts";

/** What a fetch that failed says to the user, with what to do about it. */
export function fetchFailure(error: FetchError, { name, revision }: HubName, hasToken: boolean): AglError {
  const fail = (what: string, remedy: string) =>
    new AglError("configuration", `model ${name}: ${what}`, { remedy });
  switch (error.reason) {
    case "gated":
      return fail(
        hasToken
          ? "it is gated, and the account of HF_TOKEN has not accepted its terms"
          : "it is gated, and no token is set",
        `accept its terms at ${error.page}, and set HF_TOKEN to a token of that account`,
      );
    case "token":
      return fail("the hub refuses the token in HF_TOKEN", "set HF_TOKEN to a valid token, or unset it");
    case "unknown":
      return fail(
        "the hub has no such model, or it is private",
        suggestion(name, error.candidates) ??
          `check the name at ${error.page}; for a private one set HF_TOKEN`,
      );
    case "revision":
      return fail(
        `it has no revision ${revision}`,
        suggestion(revision, error.candidates) ??
          `it has ${error.candidates.slice(0, 5).join(", ") || "none"}`,
      );
    case "network":
      return fail(
        `the hub cannot be reached and no copy is here (${error.message})`,
        "connect to the network (HTTPS_PROXY and HF_ENDPOINT are honoured), or name the folder of a model; what was fetched so far is kept",
      );
    case "disk":
      return fail("the disk filled up while it was fetched", "free some space, or name another --cache");
    case "server":
      return fail(
        `the hub answers with ${error.message}`,
        "try again later; what was fetched so far is kept",
      );
    default:
      return fail(`it could not be fetched: ${error.message}`, "what was fetched so far is kept; try again");
  }
}

function suggestion(given: string, candidates: string[]): string | undefined {
  const found = nearest(given, candidates);
  return found === undefined ? undefined : `did you mean ${found}?`;
}
