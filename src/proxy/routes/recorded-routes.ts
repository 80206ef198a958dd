import { chatRoute } from "./chat-route.ts";
import { completionsRoute } from "./completions-route.ts";
import { chooseMessagesRoute } from "./messages-route.ts";
import type { ChooseRoute } from "./recorded-route.ts";
import { responsesRoute } from "./responses-route.ts";

/** By their place after `/v1/`. */
export const recordedRoutes = {
  "chat/completions": () => chatRoute,
  completions: () => completionsRoute,
  messages: chooseMessagesRoute,
  responses: () => responsesRoute,
} satisfies { [path: string]: ChooseRoute };
