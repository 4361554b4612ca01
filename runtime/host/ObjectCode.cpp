#include "runtime/host/ObjectCode.h"

#include "runtime/Elf.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace kfuse::runtime {
namespace {

struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The system lets no memory be run that was written.
struct Denied {};

void require(bool holds, const std::string &what) {
  if (!holds)
    throw Invalid(what);
}

struct Function {
  std::string_view name;
  void *address;
};

template <class Pointer> void *address(Pointer function) { return reinterpret_cast<void *>(function); }
using Of1 = float (*)(float);
using Of2 = float (*)(float, float);
using Of3 = float (*)(float, float, float);

/// To the nearest, ties to even; a NaN stays one. As compiler-rt's __truncsfbf2, whose result is in a vector register.
__bf16 roundedToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool isNan = value != value;
  const std::uint32_t high = isNan ? (bits >> 16 | 0x40) : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return std::bit_cast<__bf16>(static_cast<std::uint16_t>(high));
}

/// What LLVM calls for memory, and for arithmetic that a processor has no instruction for.
const std::vector<Function> &library() {
  static const std::vector<Function> functions{
      {"memcpy", address(std::memcpy)},
      {"memmove", address(std::memmove)},
      {"memset", address(std::memset)},
      {"__truncsfbf2", address(roundedToBf16)},
      {"floorf", address(Of1(std::floor))},
      {"fmaf", address(Of3(std::fma))},
      {"fmaxf", address(Of2(std::fmax))},
      {"fminf", address(Of2(std::fmin))},
      {"fmodf", address(Of2(std::fmod))},
      {"roundevenf", address(Of1(std::nearbyint))}, // To even, as the processor rounds from the beginning.
      {"truncf", address(Of1(std::trunc))},
  };
  return functions;
}

/// "jmp *next; next: .quad address": a call reaches no further than 2 GB, the library may be anywhere. The address is
/// what an object reads that looks for it in a table.
struct Stub {
  static constexpr std::size_t bytes = 16, tableOffset = 8;
  static constexpr std::uint8_t jump[tableOffset] = {0xff, 0x25, 0x02, 0, 0, 0, 0x66, 0x90};
};

/// A function of the library may not be the only one of its name, so all that is undefined is looked up by name.
void *findInLibrary(std::string_view name) {
  auto found = std::ranges::find(library(), name, &Function::name);
  require(found != library().end(), "it calls '" + std::string(name) + "', which no kernel needs");
  return found->address;
}

} // namespace

/// Copies an object's sections to memory, those of one protection together, and writes addresses where it asks for
/// them: code, stubs of the library's functions, constants, data.
class ObjectCode::Linker {
public:
  Linker(std::span<const std::byte> object, ObjectCode &code) : object(object), code(code) {}

  void run() {
    readSections();
    readSymbols();
    place();
    copySections();
    for (const Elf64_Shdr &section : sections)
      if (section.sh_type == SHT_RELA)
        relocate(section);
    protect();
    for (const Elf64_Sym &symbol : symbols)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL && symbol.st_shndx)
        code.functions.emplace(nameOf(symbol), addressOf(symbol));
  }

private:
  enum Part : std::size_t { Code, Constants, Data, Parts };
  static constexpr std::size_t notLoaded = SIZE_MAX;
  static constexpr std::uint64_t mostBytes = std::uint64_t(1) << 30; // All of it within a call's reach.

  template <class T> T at(std::uint64_t offset) const { // isWholeElf() saw the tables, and here are their entries.
    T value;
    require(offset <= object.size() && sizeof value <= object.size() - offset, "a table ends outside of it");
    std::memcpy(&value, object.data() + offset, sizeof value);
    return value;
  }

  template <class T> std::vector<T> entriesOf(const Elf64_Shdr &section) const {
    require(section.sh_entsize == sizeof(T) && section.sh_size % sizeof(T) == 0, "a table has entries of another size");
    std::vector<T> entries;
    for (std::uint64_t i = 0; i < section.sh_size; i += sizeof(T))
      entries.push_back(at<T>(section.sh_offset + i));
    return entries;
  }

  void readSections() {
    const auto header = at<Elf64_Ehdr>(0);
    require(header.e_machine == EM_X86_64 && header.e_type == ET_REL && header.e_ident[EI_DATA] == ELFDATA2LSB,
            "it is no object for x86-64");
    for (std::size_t i = 0; i < header.e_shnum; ++i)
      sections.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  void readSymbols() {
    for (const Elf64_Shdr &section : sections) {
      if (section.sh_type != SHT_SYMTAB)
        continue;
      require(symbols.empty(), "it has two tables of symbols");
      symbols = entriesOf<Elf64_Sym>(section);
      require(section.sh_link < sections.size() && sections[section.sh_link].sh_type == SHT_STRTAB,
              "its symbols have no names");
      const Elf64_Shdr &text = sections[section.sh_link];
      names = {reinterpret_cast<const char *>(object.data() + text.sh_offset), text.sh_size};
    }
    stubs.resize(symbols.size());
  }

  std::string nameOf(const Elf64_Sym &symbol) const {
    require(symbol.st_name < names.size(), "a symbol's name lies outside of it");
    const std::string_view rest = names.substr(symbol.st_name);
    require(rest.find('\0') != rest.npos, "a symbol's name has no end");
    return std::string(rest.substr(0, rest.find('\0')));
  }

  /// Unwind tables are left out: no exception passes through a kernel.
  static bool isLoaded(const Elf64_Shdr &section) {
    constexpr std::uint32_t unwind = 0x70000001; // SHT_X86_64_UNWIND
    return section.sh_flags & SHF_ALLOC && section.sh_type != unwind &&
           (section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS);
  }
  static Part partOf(const Elf64_Shdr &section) {
    return section.sh_flags & SHF_EXECINSTR ? Code : section.sh_flags & SHF_WRITE ? Data : Constants;
  }

  /// Gives each section its place and each undefined symbol that is used its stub.
  void place() {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::uint64_t end = 0;
    auto alignTo = [&](std::uint64_t alignment) { end = (end + alignment - 1) / alignment * alignment; };
    places.assign(sections.size(), notLoaded);
    for (Part part : {Code, Constants, Data}) {
      partBegins[part] = end;
      for (std::size_t i = 0; i < sections.size(); ++i) {
        const Elf64_Shdr &section = sections[i];
        if (!isLoaded(section) || partOf(section) != part)
          continue;
        const std::uint64_t alignment = std::max<std::uint64_t>(section.sh_addralign, 1);
        require(alignment <= page && section.sh_size <= mostBytes, "a section is too large");
        alignTo(alignment);
        places[i] = end;
        end += section.sh_size;
        require(end <= mostBytes, "it is larger than 1 GB");
      }
      if (part == Code) {
        alignTo(Stub::bytes);
        stubsBegin = end;
        end += symbols.size() * Stub::bytes;
      }
      alignTo(page);
    }
    partBegins[Parts] = end;
    void *mapped = mmap(nullptr, std::max(end, page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw std::bad_alloc();
    code.memory = static_cast<std::byte *>(mapped);
    code.bytes = std::max(end, page);
  }

  void copySections() {
    for (std::size_t i = 0; i < sections.size(); ++i)
      if (places[i] != notLoaded && sections[i].sh_type == SHT_PROGBITS && sections[i].sh_size > 0)
        std::memcpy(code.memory + places[i], object.data() + sections[i].sh_offset, sections[i].sh_size);
  }

  std::byte *addressOf(const Elf64_Sym &symbol) const {
    require(symbol.st_shndx < sections.size() && places[symbol.st_shndx] != notLoaded,
            "it refers to a section that is not loaded");
    require(symbol.st_value <= sections[symbol.st_shndx].sh_size, "a symbol lies outside of its section");
    return code.memory + places[symbol.st_shndx] + symbol.st_value;
  }

  /// The stub of a symbol, which serves as its entry in a table of addresses, too.
  std::byte *stubOf(std::size_t index) {
    std::byte *&stub = stubs[index];
    if (stub)
      return stub;
    stub = code.memory + stubsBegin + index * Stub::bytes;
    const Elf64_Sym &symbol = symbols[index];
    void *target = symbol.st_shndx == SHN_UNDEF ? findInLibrary(nameOf(symbol)) : addressOf(symbol);
    std::memcpy(stub, Stub::jump, sizeof Stub::jump);
    std::memcpy(stub + Stub::tableOffset, &target, sizeof target);
    return stub;
  }

  void relocate(const Elf64_Shdr &table) {
    require(table.sh_info < sections.size(), "relocations are of no section");
    if (places[table.sh_info] == notLoaded)
      return;
    for (const Elf64_Rela &relocation : entriesOf<Elf64_Rela>(table))
      apply(relocation, table.sh_info);
  }

  /// System V ABI, AMD64 supplement, section 4.4.
  void apply(const Elf64_Rela &relocation, std::size_t section) {
    const std::size_t symbol = ELF64_R_SYM(relocation.r_info);
    require(symbol < symbols.size(), "a relocation is of no symbol");
    const std::uint32_t type = ELF64_R_TYPE(relocation.r_info);
    const std::size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    require(sections[section].sh_size >= width && relocation.r_offset <= sections[section].sh_size - width,
            "a relocation lies outside of its section");
    std::byte *place = code.memory + places[section] + relocation.r_offset;
    std::byte *target = nullptr;
    switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      target = symbols[symbol].st_shndx == SHN_UNDEF ? stubOf(symbol) : addressOf(symbols[symbol]);
      break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      target = stubOf(symbol) + Stub::tableOffset;
      break;
    default:
      throw Invalid("it has a relocation of type " + std::to_string(type));
    }
    const bool isAbsolute = type == R_X86_64_64;
    const std::uint64_t value = reinterpret_cast<std::uintptr_t>(target) + std::uint64_t(relocation.r_addend) -
                                (isAbsolute ? 0 : reinterpret_cast<std::uintptr_t>(place));
    const auto narrow = static_cast<std::int32_t>(value);
    require(width == 8 || static_cast<std::int64_t>(value) == narrow, "a relocation reaches too far");
    if (width == 8)
      std::memcpy(place, &value, sizeof value);
    else
      std::memcpy(place, &narrow, sizeof narrow);
  }

  void protect() {
    constexpr int protections[Parts] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (std::size_t part = Code; part < Parts; ++part)
      if (const std::uint64_t size = partBegins[part + 1] - partBegins[part]; size > 0)
        if (mprotect(code.memory + partBegins[part], size, protections[part]) != 0)
          throw Denied();
  }

  std::span<const std::byte> object;
  ObjectCode &code;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::string_view names;
  std::vector<std::uint64_t> places; ///< Each section's, in the memory; or notLoaded.
  std::vector<std::byte *> stubs;    ///< Each symbol's; null where none is needed.
  std::uint64_t partBegins[Parts + 1] = {}, stubsBegin = 0;
};

Result<std::unique_ptr<ObjectCode>> ObjectCode::load(std::span<const std::byte> object) {
  if (!isWholeElf(object))
    return Error{ErrorCode::BadModel, "its object is damaged"};
  std::unique_ptr<ObjectCode> code(new ObjectCode);
  try {
    Linker(object, *code).run();
    return code;
  } catch (const Invalid &invalid) {
    return Error{ErrorCode::BadModel, std::string("its object cannot be run: ") + invalid.what()};
  } catch (const Denied &) {
    return Error{ErrorCode::NoDevice, "the system lets no memory be run that was written; allow it (SELinux: execmem)"};
  } catch (const std::bad_alloc &) {
    return Error{ErrorCode::OutOfMemory,
                 "there is no memory for the code of an object of " + std::to_string(object.size()) + " bytes"};
  }
}

ObjectCode::~ObjectCode() {
  if (memory)
    munmap(memory, bytes);
}

void *ObjectCode::find(const std::string &function) const {
  auto found = functions.find(function);
  return found == functions.end() ? nullptr : found->second;
}

} // namespace kfuse::runtime
