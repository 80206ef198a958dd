import { chatRoute } from "./chat-route.ts";
import { completionsRoute } from "./completions-route.ts";
import type { RecordedRoute } from "./recorded-route.ts";

/** By their place after `/v1/`. */
export const recordedRoutes: { [path: string]: RecordedRoute } = {
  "chat/completions": chatRoute,
  completions: completionsRoute,
};
