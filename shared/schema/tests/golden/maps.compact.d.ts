// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    any_pattern: OptionalTool<{ [key: string]: string | number }>;
    mixed: Tool<{ count: number; name?: boolean; [key: string]: string | number | boolean | undefined }>;
    patterns: OptionalTool<{ "x-id"?: never; y?: null; [key: `x-${string}`]: string | boolean | undefined; [key: `x-a.${string}`]: boolean }>;
    record: OptionalTool<{ env?: { [key: string]: string }; open?: { a?: number; [key: string]: unknown }; [key: string]: unknown }>;
  };
  export const host: {};
}
