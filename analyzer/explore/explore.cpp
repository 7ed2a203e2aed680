#include "analyzer/explore/explore.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "analyzer/explore/assets.h"

namespace lockstep {
namespace {

std::string CspHash(const ExploreAsset& asset) {
  std::string bytes;
  for (size_t i = 0; i + 1 < asset.sha256.size(); i += 2) {
    const auto digit = [&](size_t at) {
      const char c = asset.sha256[at];
      return c <= '9' ? c - '0' : c - 'a' + 10;
    };
    bytes += static_cast<char>(digit(i) * 16 + digit(i + 1));
  }
  return absl::StrCat("'sha256-", absl::Base64Escape(bytes), "'");
}

}  // namespace

std::string ExploreHtml(const Bundle& bundle, const ViewFacts& facts) {
  const ExploreAsset &script = ExploreScript(), &style = ExploreStyle();
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ",
      CspHash(script), "; style-src ", CspHash(style),
      "; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Lockstep</title>\n<style>");
  page.append(style.text);
  page +=
      "</style></head>\n<body><noscript>This page needs JavaScript. The report of --format html does not.</noscript>\n"
      "<script type=\"application/json\" id=\"data\">";
  page += ExploreData(bundle, facts);
  page += "</script>\n<script>";
  page.append(script.text);
  page += "</script>\n</body></html>\n";
  return page;
}

}  // namespace lockstep
