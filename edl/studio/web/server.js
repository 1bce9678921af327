// Requests to the server. The token is in a cookie that scripts cannot read.

/** The JSON that the server answers. A refusal becomes an Error with the server's message. */
export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => ({ error: `the server answered with status ${response.status}.` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

export function pathOf(name, rest = "") {
  return `/api/runs/${encodeURIComponent(name)}${rest}`;
}
