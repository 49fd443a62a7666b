// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    arrays: OptionalTool<{ bare?: unknown[]; empty?: []; nested?: { [key: string]: unknown } | ({ [key: string]: unknown } | boolean[] | string | number | boolean | null)[] | string | number | boolean | null; union?: (string | number)[]; [key: string]: unknown }>;
    tuples: OptionalTool<{ closed?: { [key: string]: unknown } | [string, _1?: number] | string | number | boolean | null; old?: [_0?: string, _1?: string | null]; open?: { [key: string]: unknown } | [_0?: string, ...rest: (number | null)[]] | string | number | boolean | null; short?: { [key: string]: unknown } | [_0?: string] | string | number | boolean | null; [key: string]: unknown }>;
  };
  export const host: {};
}
