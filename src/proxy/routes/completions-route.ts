import { choicesOf } from "../../chat/answer.ts";
import { ChatAnswerReader } from "../../chat/answer-reader.ts";
import type { JsonObject } from "../../protocol/types.ts";
import { chatRoute } from "./chat-route.ts";
import type { RecordedRoute } from "./recorded-route.ts";

/** OpenAI's text completions: the prompt is text or ids, and no template is between it and the model. */
export const completionsRoute: RecordedRoute = {
  upstreamPath: "/completions",
  requestText: (request, upstream, recorded) =>
    chatRoute.requestText(request, upstream, recorded && !echoes(request.body)),
  reader: ({ modelName, wantsTokenIds, wantsUsage, body }, { recorded, fingerprint }) => {
    const added = recorded && !echoes(body);
    const mask = { modelName, hideTokenIds: added && !wantsTokenIds, hideUsage: added && !wantsUsage };
    return new CompletionReader(mask, fingerprint);
  },
  chatBody: ({ prompt, ...body }) => ({ ...body, messages: [{ role: "user", content: prompt }] }),
};

/** vLLM leaves the prompt's text out of an echo when it is asked for ids, so such a call is recorded without. */
function echoes({ echo }: JsonObject): boolean {
  return echo === true;
}

class CompletionReader extends ChatAnswerReader {
  override answer(): JsonObject | null {
    const answer = super.answer();
    if (answer === null) return null;
    const choices = choicesOf(answer).map((choice) => ({
      ...choice,
      message: { role: "assistant", content: choice.text ?? null },
    }));
    return { ...answer, choices };
  }
}
