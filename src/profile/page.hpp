// The page of web/dist/page.html as the build embeds it (cmake/VitrineEmbed.cmake).
#pragma once

#include <string_view>

namespace vitrine::profile {

std::string_view page_template();

}  // namespace vitrine::profile
