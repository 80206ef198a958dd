/** The promise's result, or undefined when it takes longer. Leaves no timer behind that would keep the process alive. */
export async function within<Result>(limitMs: number, promise: Promise<Result>): Promise<Result | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), limitMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
