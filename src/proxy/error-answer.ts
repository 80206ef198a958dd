/** An error of the proxy itself, in the shape OpenAI clients read. Errors of the model server pass unchanged. */
export function errorAnswer(
  status: number,
  code: string,
  message: string,
  options: { param?: string | null; retryAfterSeconds?: number } = {},
): Response {
  const type = status < 500 ? "invalid_request_error" : "server_error";
  const headers: Record<string, string> = {};
  if (options.retryAfterSeconds !== undefined) headers["retry-after"] = String(options.retryAfterSeconds);
  return Response.json({ error: { message, type, param: options.param ?? null, code } }, { status, headers });
}
