// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
type D0=D1
type D1=D2
type D2=D3
type D3=D4
type D4=D5
type D5=D6
type D6=D7
type D7=D8
type D8=D9
type D9=D10
type D10=D11
type D11=D12
type D12=D13
type D13=D14
type D14=D15
type D15=D16
type D16=D17
type D17=D18
type D18=D19
type D19=D20
type D20=D21
type D21=D22
type D22=D23
type D23=D24
type D24=D25
type D25=D26
type D26=D27
type D27=D28
type D28=D29
type D29=D30
type D30=D31
type D31=D32
type D32=D33
type D33=D34
type D34=D35
type D35=D36
type D36=D37
type D37=D38
type D38=D39
type D39={x:unknown,[k:string]:any}
export const server:{
doubling:ClosedTool<D0>
product:Tool<{x?:never}>
};
export const host:{};
}
