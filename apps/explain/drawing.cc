#include "explain/drawing.h"

#include <fmt/core.h>

#include <algorithm>

#include "explain/json_text.h"
#include "explain/names.h"
#include "explain/text_rows.h"

namespace explaining {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;
using rpcrdma::explain::Form;
using rpcrdma::explain::StepFact;

namespace {

constexpr std::size_t kArrow = 52;  // columns between the lifelines

std::string step_text(const StepFact& step, const CallFact& call) {
  std::string text(to_string(step.kind));
  if (step.kind == StepFact::Kind::kCall) {
    text += fmt::format(" {}, {}", to_string(call.call_form), bytes_text(step.bytes));
    if (call.call_form != Form::kRecord)
      text += fmt::format(", asks {} credits", call.call.credits);
  } else if (step.kind == StepFact::Kind::kReply) {
    const bool is_error = call.reply_form == Form::kError;
    text = is_error
               ? fmt::format("RDMA_ERROR {}", to_string(call.outcome))
               : fmt::format("Reply {}, {}", to_string(call.reply_form), bytes_text(step.bytes));
    if (call.reply_form != Form::kRecord) text += fmt::format(", grants {}", call.reply.credits);
  } else {
    if (step.count > 1) text += fmt::format(" x{}", step.count);
    text += ", " + bytes_text(step.bytes);
  }
  return text;
}

std::string packets_text(const StepFact& step) {
  return step.first.packet == step.last.packet
             ? fmt::format("packet {}", step.first.packet)
             : fmt::format("packets {}-{}", step.first.packet, step.last.packet);
}

std::string title_of(const CallFact& call) {
  return fmt::format("{:08x} {}{}: {}", call.xid, call.is_backward ? "backward " : "",
                     call_name(call), status_text(call));
}

// The reasons, below the ladder.
std::vector<std::string> notes_of(const CallFact& call) {
  std::vector<std::string> notes;
  const std::string asked = reason_of_call(call), answered = reason_of_reply(call);
  if (!asked.empty()) {
    notes.push_back(fmt::format("The Call is {}: {}.", to_string(call.call_form), asked));
  }
  const std::string offers = offers_text(call);
  if (!offers.empty()) notes.push_back("It offers " + offers + ".");
  if (call.reply_form == Form::kError) {
    notes.push_back(fmt::format("It is refused: {}.", answered));
  } else if (call.has_reply && !answered.empty()) {
    notes.push_back(fmt::format("The reply is {}: {}.", to_string(call.reply_form), answered));
  }
  const std::string arguments = arguments_text(call), results = results_text(call);
  if (!arguments.empty()) notes.push_back("Arguments: " + arguments);
  if (!results.empty()) notes.push_back("Results: " + results);
  const std::string phases = phases_text(call);
  if (!phases.empty()) notes.push_back("Time: " + phases + ".");
  if (!call.has_reply) notes.push_back(waiting_text(call) + ".");
  return notes;
}

}  // namespace

std::vector<std::string> draw_text(const CallFact& call, const ConnectionFact& connection,
                                   std::int64_t start) {
  std::vector<std::string> lines;
  lines.push_back(title_of(call));
  const std::string left = to_string(connection.sides[call.caller].endpoint);
  const std::string right = to_string(connection.sides[1 - call.caller].endpoint);
  lines.push_back(fmt::format("{:>14}  {:<{}}{}", "", left,
                              kArrow + 2 - std::min(right.size(), kArrow), right));
  std::int64_t before = 0;
  for (const StepFact& step : call.steps) {
    constexpr std::int64_t kGap = 50000000;  // nanoseconds: more is folded, and said
    if (before != 0 && step.first.time - before > kGap) {
      lines.push_back(
          fmt::format("{:>14}  : {} pass {:>{}}", "", duration_text(step.first.time - before), ":",
                      static_cast<int>(kArrow) - 8 -
                          static_cast<int>(duration_text(step.first.time - before).size())));
    }
    before = step.last.time;
    std::string label = " " + step_text(step, call) + " ";
    if (label.size() > kArrow - 4) label.resize(kArrow - 4);
    const std::size_t rest = kArrow - 2 - label.size();
    const bool is_right = step.side == call.caller;
    const std::string arrow = is_right ? "-" + label + std::string(rest, '-') + ">"
                                       : "<" + std::string(rest, '-') + label + "-";
    lines.push_back(fmt::format("{:14.6f}  |{}|  {}",
                                static_cast<double>(step.first.time - start) / 1e9, arrow,
                                packets_text(step)));
  }
  for (const std::string& note : notes_of(call))
    lines.push_back(fmt::format("{:>14}  {}", "", note));
  return lines;
}

std::string draw_svg_call(const CallFact& call, const ConnectionFact& connection,
                          std::int64_t start, std::uint32_t& height) {
  constexpr std::uint32_t kRow = 26, kLeft = 150, kRight = 690;
  std::string out;
  std::uint32_t at = height + 24;
  const auto text = [&out](std::uint32_t x, std::uint32_t y, const char* anchor,
                           const std::string& what, const char* weight = "normal") {
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" font-weight=\"{}\">{}</text>\n",
                       x, y, anchor, weight, escaped(what));
  };
  text(10, at, "start", title_of(call), "bold");
  at += 22;
  text(kLeft, at, "middle", to_string(connection.sides[call.caller].endpoint));
  text(kRight, at, "middle", to_string(connection.sides[1 - call.caller].endpoint));
  const std::uint32_t top = at + 6;
  for (const StepFact& step : call.steps) {
    at += kRow;
    const bool is_right = step.side == call.caller;
    text(kLeft - 10, at, "end",
         fmt::format("{:.6f}", static_cast<double>(step.first.time - start) / 1e9));
    text((kLeft + kRight) / 2, at - 5, "middle", step_text(step, call));
    const bool is_rdma = step.kind == StepFact::Kind::kWrite ||
                         step.kind == StepFact::Kind::kReadRequest ||
                         step.kind == StepFact::Kind::kReadResponse;
    out += fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" marker-end=\"url(#a)\"/>\n",
        is_right ? kLeft : kRight, at, is_right ? kRight - 4 : kLeft + 4, at,
        is_rdma ? "#1f6feb" : "#24292f");
    text(kRight + 10, at, "start", packets_text(step));
  }
  for (const std::uint32_t x : {kLeft, kRight}) {
    out += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#8c959f\"/>\n", x,
                       top, x, at + 12);
  }
  at += 14;
  for (const std::string& note : notes_of(call)) {
    at += 18;
    text(kLeft, at, "start", note);
  }
  height = at + 20;
  return out;
}

std::string frame_svg(const std::string& drawings, std::uint32_t height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{}\" viewBox=\"0 0 900 "
      "{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<defs><marker id=\"a\" markerWidth=\"8\" "
      "markerHeight=\"8\" "
      "refX=\"6\" refY=\"3\" orient=\"auto\"><path d=\"M0,0 L6,3 L0,6 z\"/></marker></defs>\n"
      "<rect width=\"900\" height=\"{}\" fill=\"white\"/>\n{}</svg>\n",
      height, height, height, drawings);
}

void Page::add(const CallFact& call, const ConnectionFact& connection, std::int64_t start) {
  JsonObject row;
  const auto& first = call.has_call ? call.call.first : call.reply.first;
  row.seconds("t", first.time - start)
      .text("c", fmt::format("#{} {}", connection.number,
                             to_string(connection.sides[call.caller].endpoint)))
      .text("o", to_string(connection.sides[1 - call.caller].endpoint))
      .text("x", fmt::format("{:08x}", call.xid))
      .text("n", call_name(call))
      .text("s", status_text(call))
      .boolean("g", has_succeeded(call))
      .seconds("d", call.duration())
      .text("f", fmt::format("{} / {}", to_string(call.call_form), to_string(call.reply_form)));
  std::string steps = "[";
  for (const StepFact& step : call.steps) {
    JsonObject each;
    each.seconds("t", step.first.time - start)
        .number("r", step.side == call.caller ? 1 : 0)
        .text("l", step_text(step, call))
        .text("p", packets_text(step));
    if (steps.size() > 1) steps += ',';
    steps += each.str();
  }
  row.raw("l", steps + "]");
  std::string notes = "[";
  for (const std::string& note : notes_of(call))
    notes += (notes.size() > 1 ? "," : "") + json_string(note);
  row.raw("w", notes + "]");
  rows_.emplace(
      std::pair{has_succeeded(call) ? 0 : 1, call.has_reply ? call.duration() : INT64_MAX},
      row.str());
  if (rows_.size() > calls_max_) {
    rows_.erase(rows_.begin());
    ++left_out_;
  }
}

void Page::add(const Finding& finding) {
  constexpr std::size_t kFindingsMax = 500;
  if (findings_.size() >= kFindingsMax) {
    ++findings_left_out_;
    return;
  }
  JsonObject object;
  object.text("v", to_string(finding.rule->severity))
      .text("i", finding.rule->id)
      .number("p", finding.where.packet)
      .text("x", finding.xid ? fmt::format("{:08x}", *finding.xid) : "")
      .text("t",
            fmt::format("{} {}: {}{}{}", finding.rule->document, finding.rule->section,
                        finding.rule->text, finding.detail.empty() ? "" : "; ", finding.detail));
  findings_.push_back(object.str());
}

namespace {

// "</" would end the script.
std::string for_script(std::string text) {
  for (std::size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3)) {
    text.insert(at + 1, "\\");
  }
  return text;
}

constexpr const char* kPageHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>rpcrdma explain</title><style>
body{font:14px sans-serif;margin:1em;color:#24292f}table{border-collapse:collapse;width:100%}
td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #d0d7de}
td{font-variant-numeric:tabular-nums}
tr.call{cursor:pointer}tr.call:hover{background:#f6f8fa}tr.bad td{color:#cf222e}input{width:24em}
td.num{text-align:right}pre{margin:0}svg text{font:12px sans-serif}
</style></head><body><h1>rpcrdma explain</h1><p id="about"></p>
<p><label>Show calls with
<input id="filter" placeholder="a word: an XID, a procedure, a status"></label></p>
<table><thead><tr><th>time</th><th>caller</th><th>XID</th><th>call</th><th>form / reply</th>
<th>duration</th><th>status</th></tr></thead>
<tbody id="rows"></tbody></table><h2>Rules</h2><table><tbody id="rules"></tbody></table>
<script>
)";
constexpr const char* kPageScript = R"(
const el=(n,t,c)=>{
  const e=document.createElement(n);
  if(t!==undefined)e.textContent=t;
  if(c)e.className=c;
  return e};
const svg=(n,a,t)=>{
  const e=document.createElementNS('http://www.w3.org/2000/svg',n);
  for(const k in a)e.setAttribute(k,a[k]);
  if(t!==undefined)e.textContent=t;
  return e};
function ladder(call){
  const L=150,R=690,h=26*call.l.length+60+18*call.w.length;
  const s=svg('svg',{width:900,height:h,role:'img'});
  s.append(svg('text',{x:L,y:16,'text-anchor':'middle'},call.c));
  s.append(svg('text',{x:R,y:16,'text-anchor':'middle'},call.o));
  let y=20;
  const top=y;
  for(const step of call.l){
    y+=26;
    const a=step.r?L:R,b=step.r?R:L,d=step.r?-6:6;
    const color=/Read|Write/.test(step.l)?'#1f6feb':'#24292f';
    s.append(svg('line',{x1:a,y1:y,x2:b,y2:y,stroke:color}));
    s.append(svg('path',{d:`M${b},${y} l${d},-4 l0,8 z`}));
    s.append(svg('text',{x:(L+R)/2,y:y-5,'text-anchor':'middle'},step.l));
    s.append(svg('text',{x:L-10,y:y,'text-anchor':'end'},step.t.toFixed(6)));
    s.append(svg('text',{x:R+10,y:y},step.p))}
  for(const x of [L,R])s.append(svg('line',{x1:x,y1:top,x2:x,y2:y+10,stroke:'#8c959f'}));
  y+=14;
  for(const w of call.w){y+=18;s.append(svg('text',{x:L,y:y},w))}
  return s}
const rows=document.getElementById('rows'),filter=document.getElementById('filter');
function toggle(row,call){
  const next=row.nextSibling;
  if(next&&next.className==='ladder'){next.remove();return}
  const more=el('tr',undefined,'ladder'),cell=el('td');
  cell.colSpan=7;
  cell.append(ladder(call));
  more.append(cell);
  row.after(more)}
function show(){
  rows.textContent='';
  const word=filter.value.toLowerCase();
  let count=0;
  for(const call of calls){
    const words=(call.x+' '+call.n+' '+call.s+' '+call.c).toLowerCase();
    if(word&&!words.includes(word))continue;
    if(++count>2000)break;
    const row=el('tr',undefined,'call'+(call.g?'':' bad'));
    row.id='x'+call.x;
    row.append(el('td',call.t.toFixed(6),'num'),el('td',call.c),el('td',call.x));
    row.append(el('td',call.n),el('td',call.f));
    row.append(el('td',(call.d*1000).toFixed(3)+' ms','num'),el('td',call.s));
    row.onclick=()=>toggle(row,call);
    rows.append(row)}}
filter.oninput=show;
show();
for(const rule of rules){
  const row=el('tr',undefined,rule.v==='error'?'bad':'');
  row.append(el('td',rule.v),el('td',rule.i),el('td','packet '+rule.p));
  row.append(el('td',rule.x),el('td',rule.t));
  document.getElementById('rules').append(row)}
document.getElementById('about').textContent=about;
</script></body></html>
)";

}  // namespace

std::string Page::text(std::uint64_t filtered) const {
  std::string out = kPageHead;
  out += "const calls=[";
  bool is_first = true;
  for (auto at = rows_.rbegin(); at != rows_.rend(); ++at) {
    if (!is_first) out += ",\n";
    is_first = false;
    out += for_script(at->second);
  }
  out += "];\nconst rules=[";
  for (std::size_t i = 0; i < findings_.size(); ++i)
    out += (i == 0 ? "" : ",\n") + for_script(findings_[i]);
  std::string about = fmt::format("{} calls, the faulty and the slowest first", rows_.size());
  if (left_out_ != 0) about += fmt::format("; {} quicker ones are left out", left_out_);
  if (filtered != 0) about += fmt::format("; the filters left {} out", filtered);
  if (findings_left_out_ != 0)
    about += fmt::format("; {} findings are left out", findings_left_out_);
  return out + "];\nconst about=" + json_string(about) + ";\n" + kPageScript;
}

}  // namespace explaining
