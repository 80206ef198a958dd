import { ChatAnswerReader } from "../../chat/answer-reader.ts";
import { upstreamRequestText } from "../../chat/model-request.ts";
import type { RecordedRoute } from "./recorded-route.ts";
import { asksForTokenIds } from "../servers/upstreams.ts";

/** OpenAI's chat completions. */
export const chatRoute: RecordedRoute = {
  upstreamPath: "/chat/completions",
  requestText(request, upstream, recorded) {
    const { model, requestDefaults } = upstream;
    return upstreamRequestText(request, {
      model,
      recorded,
      tokenIds: asksForTokenIds(upstream),
      ...(requestDefaults === undefined ? {} : { defaults: requestDefaults }),
    });
  },
  reader: ({ modelName, wantsTokenIds, wantsUsage }, { recorded, fingerprint }) =>
    new ChatAnswerReader(
      { modelName, hideTokenIds: recorded && !wantsTokenIds, hideUsage: recorded && !wantsUsage },
      fingerprint,
    ),
  chatBody: (body) => body,
};
