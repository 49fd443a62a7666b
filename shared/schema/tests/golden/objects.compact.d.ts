// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    create_issue: Tool<{ title: string; at?: string; count?: number; labels?: string[]; state?: "open" | "closed" }>; // Create an issue
    empty_properties: OptionalTool<{ [key: string]: unknown }>;
    no_properties: OptionalTool<{ [key: string]: unknown }>;
    no_schema_to_speak_of: OptionalTool<{ [key: string]: unknown }>;
    nothing_allowed: OptionalTool<{ [key: string]: never }>;
    undeclared_required: Tool<{ id: unknown; [key: string]: unknown }>;
  };
  export const host: {};
}
