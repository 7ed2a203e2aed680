// For static programs: libzmq can use GSSAPI, for which there is no static library. Lockstep uses only CURVE and never
// GSSAPI. These functions return "failure" (RFC 2744's GSS_S_FAILURE) for every call.
namespace {

constexpr unsigned kFailure = 13u << 16;

}  // namespace

extern "C" {

const void* GSS_C_NT_HOSTBASED_SERVICE = nullptr;
const void* GSS_C_NT_USER_NAME = nullptr;

#define LOCKSTEP_NO_GSS(name)           \
  unsigned name(unsigned* minor, ...) { \
    if (minor != nullptr) *minor = 0;   \
    return kFailure;                    \
  }
LOCKSTEP_NO_GSS(gss_accept_sec_context)
LOCKSTEP_NO_GSS(gss_acquire_cred)
LOCKSTEP_NO_GSS(gss_delete_sec_context)
LOCKSTEP_NO_GSS(gss_display_name)
LOCKSTEP_NO_GSS(gss_import_name)
LOCKSTEP_NO_GSS(gss_init_sec_context)
LOCKSTEP_NO_GSS(gss_release_buffer)
LOCKSTEP_NO_GSS(gss_release_cred)
LOCKSTEP_NO_GSS(gss_release_name)
LOCKSTEP_NO_GSS(gss_unwrap)
LOCKSTEP_NO_GSS(gss_wrap)
#undef LOCKSTEP_NO_GSS

}  // extern "C"
